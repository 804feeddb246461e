"""Prints:

    InvalidStateError
    InvalidStateError
    polls: 3, of which have come to the strategy: 1

Expected: `polls: 3, of which have come to the strategy: 3`.
"""

from parsl.executors import HighThroughputExecutor
from parsl.executors.high_throughput.executor import HTEXFuture
from parsl.jobs.error_handlers import windowed_error_handler
from parsl.jobs.job_status_poller import JobStatusPoller
from parsl.jobs.states import JobState, JobStatus

executor = HighThroughputExecutor(block_error_handler=windowed_error_handler)
executor.tasks[1] = HTEXFuture(1)
executor._status = {str(number): JobStatus(JobState.FAILED) for number in range(3)}
executor.poll_facade = lambda: None

poller = object.__new__(JobStatusPoller)
poller._executors = [executor]
scaled = []
poller._strategy = type("Strategy", (), {"strategize": lambda _, executors: scaled.append(1)})()
for _ in range(3):
    try:
        poller.poll()
    except Exception as error:
        print(type(error).__name__)
print(f"polls: 3, of which have come to the strategy: {len(scaled)}")
