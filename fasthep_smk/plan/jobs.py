"""Tasks times partitions: every job with what it reads, writes and is signed with.

Jobs come in five kinds, in the order in which they run:

========== =========================== ====================================================
scope      once per                    does
========== =========================== ====================================================
side       variation                   global side products (schemas, comparisons)
partition  task, dataset and partition runs the task's nodes
merge      dataset                     reduces partitions, runs writers with ``when: dataset``
finish     variation                   reduces datasets, makes products, plots and reports
publish    run, with variations only   writes the manifests that all variations share
========== =========================== ====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from fasthep_smk.config.routing import Router
from fasthep_smk.config.run_settings import Granularity
from fasthep_smk.flow.shapes import Key
from fasthep_smk.plan.job_builder import NO_DATASET, Book
from fasthep_smk.plan.partitions import Partition, Place
from fasthep_smk.plan.reductions import reduction_rules
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.plan.signatures import value_signature
from fasthep_smk.plan.tasks import Task
from fasthep_smk.plan.wiring import inputs_for, wiring
from fasthep_smk.storage import layout
from fasthep_smk.storage.task_table import Read
from fasthep_smk.util.files import digest_of

if TYPE_CHECKING:
    from fasthep_smk.plan.sample import Sampled


def make_rules(
    variations: list[Variation],
    granularity: Granularity,
    *,
    identity: Callable[[str], str],
    router: Router,
    without: Mapping[Place, str] = MappingProxyType({}),
    sample: Sampled | None = None,
    exports: Iterable[str] = (),
) -> list[Rule]:
    """Return the rules of a workflow with all their jobs.

    ``identity`` returns what makes an input file the same file. ``without`` are partitions that are
    not reduced, each with what went wrong; nor are those that a ``sample`` leaves out. They have
    their jobs, which nothing needs. ``exports`` are the formats that histograms are written in at
    the end, besides FAST-HEP's own.
    """
    book = Book(variations, granularity, identity, router, without, sample, exports)
    rules = [_side_rule(book), *(_partition_rule(book, task) for task in book.tasks)]
    rules += reduction_rules(book)
    return [rule for rule in rules if rule.jobs]


def _side_rule(book: Book) -> Rule:
    """Return the rule of what is made before the partitions, once for the run."""
    rule = book.rule("side_products", "side", (), archive=True)
    for item in book.variations:
        if not (nodes := item.nodes_in("global")):
            continue
        book.send(rule, item, nodes, "the work before the partitions")
        rule.keeps = tuple(dict.fromkeys([*rule.keeps, *item.ports(nodes)]))
        signature = digest_of(
            [
                book.digests(item, nodes),
                book.context(item, None),
                [item.graph.plan.context.get("datasets"), book.names(item)],
                book.identities(item.files),
            ]
        )
        job = Job(rule.name, {}, item.label, None, None, nodes, (), item.files, signature)
        book.add(rule, item, (), job)
    return rule


def _partition_rule(book: Book, task: Task) -> Rule:
    rule = book.rule(task.name, "partition", ("dataset", "part"))
    rule.stages, rule.route = task.stages, task.route
    for item in book.variations:
        _declare_products(book, rule, task, item)
    for item in book.variations:
        for partition in item.partitions or (None,):
            _partition_job(book, rule, task, item, partition)
    return rule


def _declare_products(book: Book, rule: Rule, task: Task, item: Variation) -> None:
    """Note which products of a task are read by another task or after the partitions."""
    for key in item.ports(task.nodes):
        node, readers = item.graph.nodes[key[0]], book.readers(item).get(key, set())
        if readers <= {*task.nodes} and key[1] not in node.retained:
            continue
        if node.outputs[key[1]] == "event_stream":
            book.hand_on(rule, item, key, layout.stream(*key))
        else:
            rule.archive = True
        rule.keeps = tuple(dict.fromkeys([*rule.keeps, key]))


def _partition_job(
    book: Book, rule: Rule, task: Task, item: Variation, partition: Partition | None
) -> None:
    graph, name = item.graph, partition.dataset if partition else None
    dataset = item.dataset(name) if name is not None else None
    nodes = tuple(
        node for node in task.nodes if node in graph.nodes and graph.active(node, dataset)
    )
    if not nodes:
        return
    place = partition.place if partition else NO_DATASET
    by_folder: dict[str, dict[Key, None]] = {}
    for node in nodes:
        for ref in inputs_for(graph, graph.nodes[node], dataset):
            folder = None if ref.node in nodes else book.maker(item, ref.node, place)
            if folder is not None:
                keys = by_folder.setdefault(folder, {})
                keys |= {} if ref.is_dependency else {ref.key: None}
    reads = tuple(Read(folder, tuple(keys)) for folder, keys in by_folder.items())
    files: tuple[str, ...] = ()
    if any(graph.nodes[node].role == "source" for node in nodes):
        files = (partition.file,) if partition else item.files
    kept = [key for key in rule.keeps if key[0] in nodes]
    signed_as, signatures = book.known(item, name)
    if signed_as not in rule.wirings:
        handed_on = {key: rule.live.get(key) for key in kept if key in rule.streams}
        rule.wirings[signed_as] = wiring(graph, nodes, dataset, handed_on)
    origin = book.origin(item, partition)
    values = {node: value_signature(signatures[node], origin) for node in nodes}
    book.values.setdefault((item.label, *place), {}).update(values)
    signature = digest_of([list(values.items()), [[list(key), rule.live.get(key)] for key in kept]])
    job = Job(
        rule.name, {}, item.label, name, partition, nodes, reads, files, signature,
        origin=origin, is_left_out=place in book.left_out,
    )  # fmt: skip
    book.add(rule, item, place, job)
