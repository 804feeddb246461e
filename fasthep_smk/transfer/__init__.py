"""Jobs on machines that share no file system with this one: what they are sent, what comes back."""
