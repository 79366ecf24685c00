"""Groups of servers that are changed while nginx runs, and what a reload makes of them.

What is set by NGINX Plus's API stands in shared memory alone, which a reload makes anew, but for groups with a file
for it (`state`; https://docs.nginx.com/nginx/admin-guide/load-balancer/dynamic-configuration-api/). What dyups sets
stands in the memory of each process, and those of after a reload begin with what the files say.
"""

from __future__ import annotations

from trimtab.plants.nginx.configuration import Configuration


def forgotten(configuration: Configuration) -> str:
    """What a reload forgets that was set so, for the user; empty where it forgets nothing."""
    if interface := configuration.anywhere("dyups_interface"):
        return _lost(f"at dyups_interface ({interface[0].where})", "")
    writable = next((one.where for one in configuration.anywhere("api") if "write=on" in one.args), "")
    if not writable:
        return ""
    shared, kept = ({one.block for one in configuration.anywhere(name)} for name in ("zone", "state"))
    groups = (one for one in configuration.anywhere("upstream") if one.opens in shared - kept)
    if (group := next(groups, None)) is None:
        return ""
    return _lost(f"by the API ({writable}) in a group without a 'state' file ({group.where})", ": 'state' keeps it")


def _lost(what: str, mend: str) -> str:
    return (
        f"what was set {what}, such as a server that was added or taken out, is lost by every change, trials and an "
        f"undo too{mend}"
    )
