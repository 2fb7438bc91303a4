"""How the rows that blocks read are written as SQL."""
