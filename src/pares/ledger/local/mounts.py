"""Is a path on a file system of this host alone?

Two things in pares stand on that. SQLite's write-ahead log keeps its index in memory that all its users map: processes
on two hosts each see a map of their own, and the file is ruined. And proof of death (R7) is a lock that the kernel drops
when a process ends: a network file system drops it when it *believes* that a client is gone, which proves nothing.

Linux says what is mounted where in /proc/self/mountinfo. The two callers need opposite answers where it can't be known
(no such file, a FUSE file system nobody listed): SQLite goes on unless the answer is surely "network", a proof counts
only if it is surely "local".
"""

import os
import re
from pathlib import Path
from typing import Final, NamedTuple

from pares.core.errors import CapabilityError

MOUNTINFO: Final = Path("/proc/self/mountinfo")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


NETWORK: Final = _words(
    "nfs nfs3 nfs4 cifs smb smb2 smb3 smbfs ncpfs 9p virtiofs ceph glusterfs lustre afs openafs auristorfs coda orangefs "
    "pvfs2 beegfs gpfs gfs2 ocfs2 panfs wekafs moosefs davfs acfs vboxsf vmhgfs prl_fs fakeowner osxfs"
)
"""Types whose files other hosts see too, or that live on another host (a virtual machine's shared folders included)."""

LOCAL: Final = _words(
    "ext2 ext3 ext4 xfs btrfs zfs f2fs jfs reiserfs nilfs2 bcachefs tmpfs ramfs overlay aufs vfat msdos exfat ntfs ntfs3 "
    "fuseblk hfs hfsplus udf iso9660 squashfs erofs ubifs jffs2 ecryptfs"
)
"""Types that are on a disk or in the memory of this host."""

LOCAL_FUSE: Final = _words(
    "fuse-overlayfs unionfs unionfs-fuse mergerfs bindfs gocryptfs encfs ecryptfs ntfs-3g ntfs exfat ext2 lxcfs"
)
"""FUSE programs over local files; any other FUSE program may be a bucket, a share or a tunnel."""


class Mount(NamedTuple):
    """What is mounted where a path is."""

    folder: str
    fstype: str
    source: str

    @property
    def network(self) -> bool:
        """True when it surely reaches beyond this host."""
        fuse, _, program = self.fstype.partition(".")
        return self.fstype in NETWORK or (fuse == "fuse" and program != "" and program not in LOCAL_FUSE)

    @property
    def local(self) -> bool:
        """True when it surely is this host's alone."""
        fuse, _, program = self.fstype.partition(".")
        return self.fstype in LOCAL or (fuse == "fuse" and program in LOCAL_FUSE)


def mount_of(path: str | os.PathLike[str], mountinfo: str | None = None) -> Mount | None:
    """The mount that `path` is on, links followed; of a path that isn't there yet, its nearest folder's.

    `mountinfo` is the text of /proc/self/mountinfo, read if not given. None where the system has no such file, or the
    text says nothing of this path.
    """
    if mountinfo is None:
        try:
            mountinfo = MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return None
    real = os.path.realpath(path)
    best: Mount | None = None
    for line in mountinfo.splitlines():
        mount = _parse(line)
        # Of two mounts on one folder the later one hides the earlier, hence >=.
        if mount and _within(real, mount.folder) and (best is None or len(mount.folder) >= len(best.folder)):
            best = mount
    return best


def is_local(path: str | os.PathLike[str], mountinfo: str | None = None) -> bool:
    """True only if `path` is surely on a file system of this host alone; where that can't be known, False."""
    mount = mount_of(path, mountinfo)
    return mount is not None and mount.local


def refuse_network(path: str | os.PathLike[str], mountinfo: str | None = None) -> None:
    """Raise `CapabilityError` if `path` surely is on a network file system."""
    mount = mount_of(path, mountinfo)
    if mount is not None and mount.network:
        raise CapabilityError(
            f"{os.fspath(path)} is on a network file system ({mount.fstype} from {mount.source} on {mount.folder}), "
            "where hosts see each other's writes late and torn, and locks prove nothing: "
            "use a folder on a local disk, or, for several hosts, a ledger on a server"
        )


# Id, parent, device, root, FOLDER, options, optional fields up to a lone dash, TYPE, SOURCE, options.
_LINE: Final = re.compile(r"\d+ \d+ \d+:\d+ \S+ (\S+) \S+(?: \S+)*? - (\S+) (\S+)")
_OCTAL: Final = re.compile(r"\\([0-7]{3})")


def _parse(line: str) -> Mount | None:
    found = _LINE.match(line)
    if found is None:
        return None
    folder, fstype, source = found.groups()
    return Mount(_unescape(folder), fstype, _unescape(source))


def _unescape(text: str) -> str:
    """Undo mountinfo's octal escapes of blanks, tabs, newlines and backslashes."""
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), text)


def _within(path: str, folder: str) -> bool:
    return folder == "/" or path == folder or path.startswith(folder + "/")
