"""What is remembered: the encodings of keys and rows, the catalogue of tables, the tables in memory and in LMDB, and the
running digest that proves two states equal. It knows bytes and order but no rule of crawling; one module opens LMDB.
"""
