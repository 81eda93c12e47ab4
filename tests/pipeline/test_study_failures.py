"""Why fits failed: asked of those that have no record, told with what they were."""

from tasks.plan.trials import record_key
from tasks.select.study import open_study
from tasks.storage.records import failure_name


def test_stored_fits_are_not_asked_whether_they_failed(quick_study, monkeypatch):
    study = open_study(quick_study.config, quick_study.settings)
    study.results()
    asked, read_many = [], study.store.store.read_many

    def noted(names):
        asked.extend(names := list(names))
        return read_many(names)

    monkeypatch.setattr(study.store.store, "read_many", noted)
    assert study.failures() == {}
    assert not [name for name in asked if name.endswith(".failed")]
    fold = study.inputs.splits.held_out_fold(study.loaded.table)
    gone = record_key(study.trials[-1], fold, study.inputs)
    record = study.store.read(gone)
    study.store.store.remove(f"{gone[:2]}/{gone}.record")
    study.store.write_failure(gone, "ValueError: no such thing")
    try:
        asked.clear()
        assert list(study.failures().values()) == ["ValueError: no such thing"]
        assert [name for name in asked if name.endswith(".failed")] == [failure_name(gone)]
    finally:
        study.store.forget_failures([gone])
        study.store.write(record)
