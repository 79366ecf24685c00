"""What a run leaves in force, and what it tells of its plant, in the loop on a plant in memory."""

from __future__ import annotations

import pytest

from tests._memory_plant import MemoryPlant
from tests.unit.test_loop import Run, Sceptic
from trimtab.errors import NotMeasured, PlantGone, StoreError, UsageError
from trimtab.events import Note, NoteKind, Outcome, Status
from trimtab.settings import Mode


class Noted(MemoryPlant):
    """A plant with a note, and one more after each change; it counts how often it was asked."""

    asked = 0
    error: Exception | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return (
            "a change brings pending edits into force",
            *(f"after change {n}" for n, _ in enumerate(self.applied)),
        )


@pytest.mark.parametrize("mode", list(Mode))
def test_what_the_user_should_know_of_the_plant_is_noted_before_the_first_window_in_every_mode(mode: Mode) -> None:
    run = Run(Noted(), mode=mode)
    run.go()
    assert isinstance(run.events[0], Note)
    assert (run.events[0].kind, run.events[0].text) == (NoteKind.PLANT, "a change brings pending edits into force")


@pytest.mark.parametrize("mode", [Mode.AUTONOMOUS, Mode.OBSERVE])
def test_a_note_is_told_once_and_asked_for_only_at_the_start_and_after_a_change(mode: Mode) -> None:
    plant = Noted()
    run = Run(plant, mode=mode)
    run.go()
    texts = [note.text for note in run.notes(NoteKind.PLANT)]
    assert bool(plant.applied) == (mode is Mode.AUTONOMOUS) and len(run.windows) > 1
    assert len(texts) == len(set(texts)) == plant.asked == 1 + len(plant.applied)


ERRORS = [UsageError("not permitted"), NotMeasured("silent"), PlantGone("no worker"), OSError(13, "Not permitted")]


@pytest.mark.parametrize("error", ERRORS)
def test_a_run_does_not_fail_for_want_of_notes(error: Exception) -> None:
    plant = Noted()
    plant.error = error
    run = Run(plant)
    assert run.go().status is Status.DONE
    assert plant.applied
    (note,) = run.notes(NoteKind.PLANT)
    assert str(error) in note.text


def test_a_run_that_nothing_shows_to_be_better_ends_with_what_it_found() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({"workers": 10}))
    assert run.go().restored
    assert run.plant.restored == 1
    assert "nothing shows that the last setting is better than workers 10" in run.notes(NoteKind.RESTORE)[0].text


def test_a_run_ends_with_the_last_setting_that_was_shown_to_be_better() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({"workers": 30}))
    assert not run.go().restored
    assert run.plant.values["workers"] == 30


def test_a_run_whose_last_setting_is_the_good_one_is_left_as_it_is() -> None:
    run = Run(MemoryPlant(), judge=Sceptic({}))
    run.go()
    assert run.plant.restored == 0
    assert run.notes(NoteKind.RESTORE) == []


def test_a_defect_while_the_configuration_is_put_back_is_said_and_the_outcome_is_stored() -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0, restore=True)
    plant.restore_error = RuntimeError("a defect")
    assert run.go() == Outcome(Status.DONE, "", 3, False)
    assert "could not restore the configuration: a defect" in run.notes(NoteKind.RESTORE)[0].text


@pytest.mark.parametrize("ends", ["done", "failed"])
def test_a_full_disk_at_restore_is_said_and_the_outcome_is_stored(ends: str) -> None:
    plant = MemoryPlant()
    run = Run(plant, duration_s=30.0, restore=True)
    plant.restore_error = OSError(28, "No space left on device")
    if ends == "failed":
        plant.fake_clock.at.append((15.0, lambda: setattr(plant, "apply_error", RuntimeError("a defect"))))
        with pytest.raises(RuntimeError, match="a defect"):
            run.go()
    else:
        assert run.go() == Outcome(Status.DONE, "", 3, False)
    assert run.store.run(run.recorder.run_id).status.value == ends
    assert "could not restore the configuration: [Errno 28] No space" in run.notes(NoteKind.RESTORE)[0].text


def test_where_the_store_is_full_as_well_the_configuration_is_put_back_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant, finished = MemoryPlant(), list[Outcome]()
    run = Run(plant, duration_s=30.0, restore=True)

    def full(note: Note) -> None:
        raise StoreError("the store cannot be written: database or disk is full")

    monkeypatch.setattr(run.recorder, "note", full)
    monkeypatch.setattr(run.recorder, "finish", finished.append)
    run.go()
    assert plant.restored == 1
    assert finished == [Outcome(Status.DONE, "", 3, True)]
    assert [event.kind for event in run.events if isinstance(event, Note)] == [NoteKind.RESTORE]
