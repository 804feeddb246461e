"""The jobs after the partitions: reduce a dataset, finish a variation, publish what all share."""

from __future__ import annotations

from collections.abc import Iterator

from fasthep_smk.plan.job_builder import Book
from fasthep_smk.plan.partitions import missing_entries
from fasthep_smk.plan.plot_signatures import end_values
from fasthep_smk.plan.product_keys import final_streams, late_keys
from fasthep_smk.plan.rules import Job, Rule, Variation
from fasthep_smk.storage.task_table import Read
from fasthep_smk.util.files import digest_of
from fasthep_smk.util.names import encode

#: As many processes draw plots at most: with more of them, starting takes longer than drawing.
_PROCESSES = 8


def reduction_rules(book: Book) -> list[Rule]:
    """Return the rules after the partitions."""
    rules = [_merge_rule(book)] if book.merges else []
    rules.append(_finish_rule(book))
    return [*rules, _publish_rule(book)] if book.varied else rules


def _merge_rule(book: Book) -> Rule:
    rule = book.rule("merge", "merge", ("dataset",), archive=True)
    rule.stages = ("histograms, cutflows and other products",)
    for item in book.variations:
        for node, port in final_streams(item):
            file = f"{encode(node.replace('.', '_'))}-{encode(port)}.arrow"
            book.hand_on(rule, item, (node, port), file)
    for item in book.variations:
        for name in item.dataset_names:
            dataset, sampled = item.dataset(name), book.sampled(item, name)
            nodes = tuple(
                node for node in item.nodes_in("dataset") if item.graph.active(node, dataset)
            )
            book.send(rule, item, nodes, "the work at the end of a dataset")
            late = [
                [node, port]
                for node, port in late_keys(item, name)
                if port not in item.graph.nodes[node].retained
                and item.graph.nodes[node].outputs[port] != "event_stream"
            ]
            sees_all = item.graph.hooked or any("run" in item.graph.nodes[n].sees for n in nodes)
            signature = digest_of(
                [
                    book.digests(item, nodes, name),
                    book.context(item, name),
                    [dataset, book.names(item)] if nodes else None,
                    item.graph.plan.context.get("datasets") if sees_all else None,
                    book.before(item),
                    book.made(item, name),
                    # Where the files of a variation go depends on its name.
                    item.name if nodes else None,
                    book.contents(item, "dataset"),
                    # What is left for the end of the run, besides the reduced products.
                    [[list(key), rule.live[key]] for key in final_streams(item)],
                    late,
                    *sampled,
                ]
            )
            reads = (*book.side(item), *_partition_reads(book, item, name))
            job = Job(
                rule.name, {}, item.label, name, None, nodes, reads, (), signature,
                sample=book.sample.as_data() if book.sample and sampled else None,
            )  # fmt: skip
            book.add(rule, item, (name,), job)
    return rule


def _finish_rule(book: Book) -> Rule:
    rule = book.rule("finish", "finish", (), archive=book.varied)
    for item in book.variations:
        nodes, plan = item.nodes_in("final"), item.graph.plan
        book.send(rule, item, nodes, "the work at the end of the run")
        names = item.dataset_names or (None,)
        reads = [*book.side(item)]
        for name in names:
            if book.merges and name is not None:
                folder = book.folder_of["merge", item.label, name]
                reads.append(Read(folder, tuple(late_keys(item, name))))
            else:
                reads += _partition_reads(book, item, name)
        without = [part.id for part in item.partitions if part.place in book.left_out]
        lost = [part for part in item.partitions if part.place in book.without]
        reasons = [book.without[part.place] for part in lost]
        common = [plan.context.get("datasets"), book.names(item)]
        values = _values(book, item, [*common, item.name, without])
        if not book.varied:  # several ends of a run keep all cores busy
            rule.processes = max(1, min(_PROCESSES, len(values)))
        signature = digest_of(
            [
                book.digests(item, nodes),
                book.before(item),
                [[name, book.made(item, name)] for name in names],
                [plan.reports, item.graph.reporting, book.context(item, None)],
                common,
                item.name,
                book.contents(item, "dataset", "final"),
                # The summary lists them: a run that knows nothing of them is another one.
                *([["without", without, reasons]] if without else []),
                *([["export", *book.exports]] if book.exports else []),
                *book.sampled(item),
            ]
        )
        job = Job(
            rule.name, {}, item.label, None, None, nodes, tuple(reads), (), signature,
            missing=tuple(missing_entries(lost, book.without)), values=values,
            sample=book.sample.as_data() if book.sample and book.sampled(item) else None,
        )  # fmt: skip
        book.add(rule, item, (), job)
    return rule


def _values(book: Book, item: Variation, common: list[object]) -> dict[str, str]:
    """Return the signatures of what single nodes at the end of the run make."""
    places = {name: book.reduced(item, name) for name in item.dataset_names or (None,)}

    def reduced(node: str) -> list[object]:
        return [
            [
                name,
                [
                    [book.values.get((item.label, *place), {}).get(node), label]
                    for place, label in labels.items()
                ],
            ]
            for name, labels in places.items()
        ]

    around = [book.before(item), book.context(item, None), *common, *book.sampled(item)]
    return end_values(item.graph, book.static[item.label], reduced, around)


def _publish_rule(book: Book) -> Rule:
    finished = [book.folder_of["finish", item.label] for item in book.variations]
    reads = tuple(Read(folder, ()) for folder in finished)
    signature = digest_of([book.signatures[folder] for folder in finished])
    label = book.variations[0].label
    job = Job("publish", {}, label, None, None, (), reads, (), signature)
    return Rule("publish", "publish", (), book.router.route([]), (), jobs={"": job})


def _partition_reads(book: Book, item: Variation, dataset: str | None) -> Iterator[Read]:
    """Yield what is reduced of a dataset, partition by partition and task by task in plan order."""
    late = set(late_keys(item, dataset))
    for place in book.reduced(item, dataset):
        for task in book.tasks:
            folder = book.folder_of.get((task.name, item.label, *place))
            if folder is not None:
                yield Read(folder, tuple(sorted(key for key in late if key[0] in task.nodes)))
