"""What the machine below gives, and does not give: an archive of classes, room on a disk, a place for rows."""
