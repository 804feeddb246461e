"""The build folder: its layout, records and tables, products, input files, disk use."""
