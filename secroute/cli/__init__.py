"""The one command, ``secroute``: a module per group of subcommands, each imported only when it is asked for."""
