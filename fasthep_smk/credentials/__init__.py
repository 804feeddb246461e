"""Credentials for remote files: which there are, how long they last, what to do when they end.

``found`` is what may be known of one, ``proxies``, ``tokens`` and ``kerberos`` look at those of
this user, ``checks`` compares them with what a workflow requires, ``expected`` tells when a run may
end, ``preflight`` refuses a run, ``gate`` holds back jobs while it goes on.

Nothing here keeps a secret: a proxy's key and a token are read, looked at, and let go.
"""
