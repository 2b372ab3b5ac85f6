"""Tuning on a Dask cluster: candidates are built on any host of one kind and measured one at a time per host.

Dask carries the messages and knows who is there; it is trusted with nothing else. It has no deadline for a task, waits for ever where
a resource is missing, and keeps no result when its scheduler dies. So the client decides where everything runs, owns a deadline for all
that has begun, and has each outcome before it asks for more: what was written to the log is never lost. Within a Dask worker every
candidate still runs in the tuner's own disposable process, so that what a candidate does never reaches Dask. Only text and bytes are
sent, to functions that are found by their name.
"""

from __future__ import annotations

from tensorlang.autotune.cluster.evaluator import ClusterEvaluator, target

__all__ = ["ClusterEvaluator", "target"]
