"""What a mount table says of a path."""

from pathlib import Path

import pytest

import pares.ledger
from pares.core.errors import CapabilityError
from pares.ledger.local import mounts
from pares.ledger.local.mounts import is_local, mount_of, refuse_network

TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
40 27 0:40 / /home rw,relatime shared:7 master:2 - nfs4 server:/home rw,vers=4.2
41 40 0:41 / /home/local rw - xfs /dev/vdb rw
42 27 0:42 / /mnt/with\\040blank rw - cifs //server/share rw
43 27 0:43 / /srv/a rw - nfs server:/a rw
44 27 0:44 / /srv/a rw - tmpfs tmpfs rw
45 27 0:45 / /mnt/ssh rw - fuse.sshfs me@server:/ rw
46 27 0:46 / /mnt/merged rw - fuse.mergerfs /a:/b rw
47 27 0:47 / /mnt/disk rw - fuseblk /dev/sdb1 rw
48 27 0:48 / /mnt/odd rw - somethingfs none rw
49 27 0:49 / /mnt/smb rw - smb3 //server/x rw
50 27 0:50 / /mnt/ceph rw - ceph 10.0.0.1:/ rw
51 27 0:51 / /mnt/gluster rw - fuse.glusterfs server:/v rw
52 27 0:52 / /mnt/lustre rw - lustre mgs@tcp:/x rw
53 27 0:53 / /afs rw - afs none rw
54 27 0:54 / /mnt/plan9 rw - 9p share rw
55 27 0:55 / /mnt/virtio rw - virtiofs share rw
this line is no mount
"""


@pytest.mark.parametrize(
    ("path", "fstype", "local", "network"),
    [
        ("/var/lib/x.db", "ext4", True, False),
        ("/home/me/x.db", "nfs4", False, True),
        ("/home", "nfs4", False, True),
        ("/home2/x.db", "ext4", True, False),
        ("/home/local/x.db", "xfs", True, False),
        ("/home/locality/x.db", "nfs4", False, True),
        ("/mnt/with blank/x.db", "cifs", False, True),
        ("/srv/a/x.db", "tmpfs", True, False),
        ("/mnt/ssh/x.db", "fuse.sshfs", False, True),
        ("/mnt/merged/x.db", "fuse.mergerfs", True, False),
        ("/mnt/disk/x.db", "fuseblk", True, False),
        ("/mnt/odd/x.db", "somethingfs", False, False),
        ("/mnt/smb/x.db", "smb3", False, True),
        ("/mnt/ceph/x.db", "ceph", False, True),
        ("/mnt/gluster/x.db", "fuse.glusterfs", False, True),
        ("/mnt/lustre/x.db", "lustre", False, True),
        ("/afs/cell/x.db", "afs", False, True),
        ("/mnt/plan9/x.db", "9p", False, True),
        ("/mnt/virtio/x.db", "virtiofs", False, True),
    ],
)
def test_tells_local_from_network(path: str, fstype: str, local: bool, network: bool) -> None:
    mount = mount_of(path, TABLE)
    assert mount is not None
    assert (mount.fstype, mount.local, mount.network) == (fstype, local, network)
    assert is_local(path, TABLE) is local
    if network:
        with pytest.raises(CapabilityError, match=f"{path}.* network file system .{fstype} from"):
            refuse_network(path, TABLE)
    else:
        refuse_network(path, TABLE)


def test_follows_links(tmp_path: Path) -> None:
    table = f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path}/far rw - nfs server:/ rw\n"
    (tmp_path / "far").mkdir()
    (tmp_path / "near").symlink_to(tmp_path / "far")
    assert is_local(tmp_path / "x.db", table)
    assert not is_local(tmp_path / "near" / "x.db", table)
    assert not is_local(tmp_path / "near" / "not" / "there" / "x.db", table)


def test_knows_nothing_without_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert mount_of("/x", "") is None
    assert not is_local("/x", "")
    monkeypatch.setattr(mounts, "MOUNTINFO", tmp_path / "none")
    assert mount_of(tmp_path) is None
    assert not is_local(tmp_path)
    refuse_network(tmp_path)


def test_reads_this_systems_table(tmp_path: Path) -> None:
    mount = mount_of(tmp_path)
    assert mount is not None
    assert str(tmp_path).startswith(mount.folder)
    assert not mount.network


def test_a_sqlite_ledger_is_refused_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {tmp_path} rw - nfs4 server:/export rw\n")
    monkeypatch.setattr(mounts, "MOUNTINFO", table)
    with pytest.raises(CapabilityError) as caught:
        pares.ledger.open(f"sqlite:///{tmp_path}/x.db")
    assert "network file system (nfs4 from server:/export" in str(caught.value)
    assert not (tmp_path / "x.db").exists()
