"""From rules and jobs to files: Snakefile, task tables, slim plans, profile, worker script.

``snakefile`` is the only module that writes Snakefile text. All text is a pure function of the
rules, so that translating twice gives the same bytes.
"""

from fasthep_smk.util.public import is_called_as

is_called_as(__name__, "fasthep_smk.api", "translate")
