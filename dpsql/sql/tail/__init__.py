"""The post-processing query over released rows."""
