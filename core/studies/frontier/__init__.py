"""The frontier study: the settings of depth, width and batch at which two targets tie."""
