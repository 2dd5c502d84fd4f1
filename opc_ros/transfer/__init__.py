"""How machines of one lab that share no disk hand each other candidates and episodes."""
