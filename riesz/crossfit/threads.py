"""Runs work in several threads that can be stopped, and sets how many threads BLAS and torch use meanwhile.

Python cannot stop a thread from outside, so long loops call :func:`go_on`. The number of threads that BLAS and torch use is a
setting of the whole process; after fits that overlap in time it must be the same as before the first of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread, local
from typing import Any, TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

Task = TypeVar("Task")
Result = TypeVar("Result")

_LISTEN = 0.2  # seconds between two checks for an interrupt, which waiting does not notice
_GRACE = 1.0  # seconds to wait for threads to stop

_current_thread = local()


class Stopped(Exception):
    """Raised in a thread that should stop."""


def go_on() -> None:
    """Raise :class:`Stopped` in a thread that should stop; long loops call it.

    Examples
    --------
    >>> from riesz.crossfit.threads import go_on
    >>> go_on()
    """
    stop: Event | None = getattr(_current_thread, "stop", None)
    if stop is not None and stop.is_set():
        raise Stopped


def in_threads(work: Callable[[Task], Result], tasks: Sequence[Task], stop: Event) -> list[Result]:
    """Run every task in a separate thread, and return the results in order.

    If a task fails, or on an interrupt, ``stop`` is set and the error is raised. Threads that do not react within a second, because
    a library call takes long, are not waited for: they end when that call does, or with the process.

    Examples
    --------
    >>> from threading import Event
    >>> from riesz.crossfit.threads import in_threads
    >>> in_threads(lambda number: number**2, [1, 2, 3], Event())
    [1, 4, 9]
    """
    ended: SimpleQueue[tuple[int, Result | None, BaseException | None]] = SimpleQueue()

    def run(place: int, task: Task) -> None:
        _current_thread.stop = stop
        try:
            ended.put((place, work(task), None))
        except BaseException as error:  # raised again in the thread that waits
            ended.put((place, None, error))

    threads = [Thread(target=run, args=(place, task), daemon=True) for place, task in enumerate(tasks)]
    results: dict[int, Result] = {}
    try:
        for thread in threads:
            thread.start()
        while len(results) < len(tasks):
            try:
                place, result, error = ended.get(timeout=_LISTEN)
            except Empty:
                continue
            if error is not None:
                raise error
            results[place] = result  # type: ignore[assignment]
    except BaseException:
        stop.set()
        deadline = time.monotonic() + _GRACE
        for thread in threads:
            if thread.is_alive():
                thread.join(max(deadline - time.monotonic(), 0.0))
        raise
    return [results[place] for place in range(len(tasks))]


class _Limit:
    """One thread for BLAS and torch while any fit runs: the first fit records the previous numbers, the last one restores them."""

    def __init__(self) -> None:
        self._lock, self._inside = Lock(), 0

    def enter(self) -> None:
        import torch

        with self._lock:
            if not self._inside:
                libraries = ThreadpoolController().select(user_api="blas").lib_controllers
                self._before = [(library, library.num_threads) for library in libraries]
                self._torch = torch.get_num_threads()
                _set_threads((library, 1) for library in libraries)
            self._inside += 1
            torch.set_num_threads(1)  # partly a setting of the calling thread

    def leave(self) -> None:
        import torch

        with self._lock:
            self._inside -= 1
            torch.set_num_threads(self._torch)
            if not self._inside:
                _set_threads(self._before)


def _set_threads(numbers: Iterable[tuple[Any, int]]) -> None:
    """Set the number of threads of libraries, even if another thread has set it before.

    Newer versions of threadpoolctl let only one thread of a process set the number for OpenBLAS, and silently ignore the others.
    """
    free = getattr(OpenBLASController, "clear_controlling_thread", None)
    if free is not None:
        free(force=True)
    for library, number in numbers:
        library.set_num_threads(number)
    if free is not None:
        free(force=True)


_limit = _Limit()


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for BLAS and torch inside the block, even if blocks of several threads overlap.

    Torch needs its own limit: once its number of threads is set, limits for BLAS do not affect its matrix products.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """One thread for OpenMP inside the block: a setting of the calling thread alone."""
    with ThreadpoolController().select(user_api="openmp").limit(limits=1):
        yield
