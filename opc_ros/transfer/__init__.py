"""How machines of one lab that share no disk pass candidates and episodes to each other."""
