"""What the commands of `lintra analyzer` share, and those that analyse."""
