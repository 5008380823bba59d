"""A history: what logs have told, kept in tables for years after the logs themselves are trimmed.

    history = pares.spark.history(spark, "/var/lib/audit/work")
    history.update("kafka://broker:9092/work")
    history.violations.show()

    task        a log partition's new entries, folded on from where the last batch ended, become files     (one task each)
    spread      of a long partition, ranges are folded at once (a task each), and become the same files
    manifest    a batch is one file that names them; it is there whole or not at all, and follows the one before
    updating    plans a batch, has the tasks done, and commits it
    store       what a reader gets: the tables by what the manifests name, and what the audit makes of them

Rules, each with what breaks without it:

* A batch is committed by creating its manifest if it is not there, and it begins where the last one ended. Whatever happens
  between two steps, files that no manifest names are no part of the history. [a run that is killed half way would leave rows
  that the next run writes again]
* A file's name is made of what is in it, and what is in it follows from the log alone: no time of the run, no random name. So a
  batch that is done again is the same bytes. [after a crash nobody could tell a copy from a second opinion]
* A token that is lower than the last batch's is refused. [a driver that was frozen for an hour goes on as if it led]
* The state of the fold is a table like others (`worlds`): a batch reads what is new, and nothing twice.
* What does not fit a table's columns is in the quarantine, with the reason, and everything else stays. [one broken record, and
  a year's history has no new rows]
"""

from pares.spark.histories.manifest import Manifest, Overtaken
from pares.spark.histories.store import History, history

__all__ = ["History", "Manifest", "Overtaken", "history"]
