"""The interface of engines, and the parts that engines share."""
