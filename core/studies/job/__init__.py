"""A user's own script as a study: where its time goes, and from which length on another target pays for it."""
