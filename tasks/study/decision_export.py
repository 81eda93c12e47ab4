"""The decision on a finished run, as far as the run itself knows it."""

from configs.decision import Decision
from tasks.study.champion import select_champion
from tasks.study.known_runs import now, time_taken
from tasks.study.opening import Study
from tasks.study.recording import model_address


def decision_of(study: Study, who: str = "", why: str = "") -> Decision:
    """Return which model a run has chosen under which limits; people say who and why."""
    champion = select_champion(study)
    _, finished = time_taken(study)
    scores = champion.judgement.held_out
    return Decision(
        run=study.config.name,
        made=(finished.isoformat() if finished else now())[:10],
        model=model_address(study, champion),
        chosen=champion.title,
        limits={**study.config.gate, **champion.policy.subject_to},
        who=" ".join(who.split()),
        why=" ".join(why.split()),
        held_out={
            "mae": round(scores.mae[0], 6),
            **{
                f"{measure} on {column}": round(ends[0], 6)
                for column, found in scores.measures.items()
                for measure, ends in found.items()
            },
        },
        data=study.loaded.digest,
    )
