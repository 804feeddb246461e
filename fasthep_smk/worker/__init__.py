"""What runs inside a job. Knows tasks and files; nothing of Snakemake, pools or sites."""
