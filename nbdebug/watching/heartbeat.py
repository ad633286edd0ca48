"""Signs of life that the ranks of a run exchange, so that one that hangs or has ended is named while others wait."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from nbdebug.distributed.rank_group import LOST_SECONDS, RankGroup
from nbdebug.distributed.rank_report import CodePlace, name_ranks
from nbdebug.formatting import truncate
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.watching.rank_observer import RankObserver, to_place

BEAT_SECONDS, STALLED_SECONDS = 0.5, 5.0
_LONGEST_STEPS = 4  # times the longest step so far, before a longer one counts as stalled
_MAX_ERROR_LENGTH = 100  # characters
RUNNING, LEFT, FAILED = "running", "left", "failed"


@dataclass(frozen=True)
class Beat:
    """A sign of life of a rank: its state, its step, and the line of the user's code at which it is."""

    rank: int
    count: int
    state: str
    step: int
    in_backward: bool
    place: CodePlace | None
    error: str = ""
    planned_batches: int = 0

    @classmethod
    def from_json(cls, text: str) -> Beat:
        """Return the beat in a text."""
        content = json.loads(text)
        place = content.pop("place")
        return cls(**content, place=CodePlace(**place) if place else None)


@dataclass(frozen=True)
class Stall:
    """A state in which no rank finishes a step: the last beat of each rank, and the ranks that no longer beat.

    ``absent_ranks`` are those for which the others wait: lost ones, else those outside of the loop or of the passes.
    """

    beats: tuple[Beat, ...]
    lost_ranks: tuple[int, ...]
    seconds: float

    @property
    def absent_ranks(self) -> tuple[int, ...]:
        """The ranks for which the others wait; all if none of them differs."""
        if self.lost_ranks:
            return self.lost_ranks
        for is_absent in (_has_left, self._is_behind, _is_outside_backward):
            absent = tuple(beat.rank for beat in self.beats if is_absent(beat))
            if absent and len(absent) < len(self.beats):
                return absent
        return tuple(beat.rank for beat in self.beats)

    def _is_behind(self, beat: Beat) -> bool:
        return beat.step < max(other.step for other in self.beats)

    def describe(self) -> str:
        """Return one sentence for each rank, those for which the others wait first."""
        absent = self.absent_ranks
        ordered = sorted(self.beats, key=lambda beat: (beat.rank not in absent, beat.rank))
        return " ".join(self._describe_beat(beat) for beat in ordered)

    def _describe_beat(self, beat: Beat) -> str:
        place = f" at {_format_place(beat.place)}" if beat.place else ""
        if beat.rank in self.lost_ranks:
            return f"Rank {beat.rank} gives no sign of life since step {beat.step}{place}."
        if beat.state != RUNNING:
            end = f"failed ({beat.error})" if beat.error else "has left the loop"
            return f"Rank {beat.rank} {end} after {beat.step - 1} steps."
        activity = "waits in the backward pass of" if beat.in_backward else "is in"
        return f"Rank {beat.rank} {activity} step {beat.step}{place}."


class Heartbeat:
    """A thread that writes a beat of this rank twice a second, and reads those of the others.

    It uses its own connection to the store and no collective operation, so that it neither waits nor makes others wait.
    The first rank that is alive calls ``on_stall`` with each new state in which no rank has finished a step for
    ``STALLED_SECONDS`` and four times the longest step, or a rank has not beaten for ``LOST_SECONDS``.
    """

    def __init__(self, group: RankGroup, key: str, observer: RankObserver, on_stall: Callable[[Stall], None]) -> None:
        self.group, self.key, self.observer, self.on_stall = group.with_own_connection(), key, observer, on_stall
        self.main_thread = threading.get_ident()
        self.state, self.error, self.count = RUNNING, "", 0
        self.lines: Counter[SourceLine] = Counter()
        self.beats: dict[int, Beat] = {}
        self.last_news = dict[int, float]()
        self.stall: Stall | None = None
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, name="nbdebug heartbeat", daemon=True)

    def start(self) -> None:
        """Write the first beat, and start the thread."""
        self.last_progress, self.last_step, self.longest_step = time.monotonic(), 0, 0.0
        self.beat()
        self.thread.start()

    def stop(self, error: str) -> None:
        """Write the last beat, with the error that has ended the loop, and end the thread."""
        self.state, self.error = (FAILED if error else LEFT), error
        self.stopped.set()
        self.thread.join(LOST_SECONDS)
        self.beat()

    def run(self) -> None:
        """Beat and read until the loop ends."""
        while not self.stopped.wait(BEAT_SECONDS):
            self.beat()
            self.read_beats()
            stall = self.find_stall()
            is_news = stall is not None and (self.stall is None or stall.absent_ranks != self.stall.absent_ranks)
            if stall is not None and is_news and self.speaks_for_all(stall):
                self.stall = stall
                self.on_stall(stall)

    def beat(self) -> None:
        """Write where this rank is."""
        line = get_calling_line(sys._current_frames().get(self.main_thread))
        observer = self.observer
        if line is not None and not observer.in_backward and self.state == RUNNING:
            self.lines[line] += 1
        self.count += 1
        place = to_place(line) if line else None
        step, error = observer.steps + 1, truncate(self.error, _MAX_ERROR_LENGTH)
        where = (step, observer.in_backward, place)
        beat = Beat(self.group.rank, self.count, self.state, *where, error, observer.planned_batches)
        self.beats[self.group.rank] = beat
        self.last_news[self.group.rank] = time.monotonic()
        self.group.write(f"{self.key}/beat/{self.group.rank}", json.dumps(asdict(beat)))

    def read_beats(self) -> None:
        """Read the beats of the other ranks; the time of the last change is that of this clock."""
        now = time.monotonic()
        for rank in self.group.other_ranks:
            if (text := self.group.read(f"{self.key}/beat/{rank}")) is None:
                continue
            beat = Beat.from_json(text)
            if rank not in self.beats or self.beats[rank].count != beat.count:
                self.beats[rank], self.last_news[rank] = beat, now
        step = sum(beat.step for beat in self.beats.values())
        if step != self.last_step:
            self.longest_step = max(self.longest_step, now - self.last_progress) if self.last_step else 0.0
            self.last_progress, self.last_step = now, step

    def lost_ranks(self) -> tuple[int, ...]:
        """Return the ranks that were in the loop and have not beaten for some seconds."""
        now = time.monotonic()
        running = (rank for rank, beat in self.beats.items() if beat.state == RUNNING)
        return tuple(sorted(rank for rank in running if now - self.last_news[rank] > LOST_SECONDS))

    def find_stall(self) -> Stall | None:
        """Return the state of all ranks if none makes progress or one is lost."""
        silent, lost = time.monotonic() - self.last_progress, self.lost_ranks()
        limit = max(STALLED_SECONDS, min(_LONGEST_STEPS * self.longest_step, 60.0))
        is_running = any(beat.state == RUNNING for beat in self.beats.values())
        if not lost and (silent < limit or len(self.beats) < 2 or not is_running):
            return None
        return Stall(tuple(self.beats[rank] for rank in sorted(self.beats)), lost, silent)

    def speaks_for_all(self, stall: Stall) -> bool:
        """Return whether this rank is the first that is alive."""
        alive = (beat.rank for beat in stall.beats if beat.rank not in stall.lost_ranks and beat.state == RUNNING)
        return self.group.rank == min(alive, default=0)

    @property
    def busiest_line(self) -> SourceLine | None:
        """The line at which this rank was found most often outside of the backward pass."""
        return self.lines.most_common(1)[0][0] if self.lines else None


def describe_stall(stall: Stall) -> str:
    """Return a line for standard error."""
    ranks = name_ranks(stall.absent_ranks)
    reason = f"{ranks} lost" if stall.lost_ranks else f"no step for {stall.seconds:.0f} s, waiting for {ranks}"
    return f"nbdebug watch: {reason}. {stall.describe()}"


def _has_left(beat: Beat) -> bool:
    return beat.state != RUNNING


def _is_outside_backward(beat: Beat) -> bool:
    return not beat.in_backward


def _format_place(place: CodePlace) -> str:
    line: Any = SourceLine(place.file, place.number, place.function)
    text = line.text.strip()
    return f"{place.file}, line {place.number}{f': {text}' if text else ''}"
