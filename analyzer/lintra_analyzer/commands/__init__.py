"""Functions that the commands of `lintra analyzer` share, and the commands that analyse."""
