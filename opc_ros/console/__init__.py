"""The lab's live page: arms, ranking, decisions and episodes in a browser."""
