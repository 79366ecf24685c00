"""The gate as Python sees it.

What is asked of it (`spec`), where it runs (`run_directory`), how it is spoken to (`link`), its processes (`pair`),
and the server's: whether the shim can be loaded into it (`program`), how it is started (`launch`), which they are
(`server`).
"""
