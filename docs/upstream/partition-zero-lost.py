"""Prints:

    partition: None

Expected: `partition: 0`.
"""

from hepflow.model.io import ArtifactReference

reference = ArtifactReference(uri="skim.root", product_kind="artifact", partition_index=0)
print("partition:", ArtifactReference.from_dict(reference.to_dict()).partition_index)
