"""Credentials for remote files: which there are, how long they last, what to do when they end.

``credential`` is what may be known of one, ``proxies``, ``tokens`` and ``kerberos`` look at those
of this user, ``checks`` compares them with what a workflow requires, and tells for which of them
jobs wait. Before a run ``run/credential_check`` refuses it, while it goes on
``executors/credential_gate`` holds back jobs.

Nothing here keeps a secret: a proxy's key and a token are read, looked at, and let go.
"""
