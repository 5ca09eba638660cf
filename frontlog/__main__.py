"""`python -m frontlog` is `frontlog`."""

from frontlog.cli import main

if __name__ == "__main__":
    main()
