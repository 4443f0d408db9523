"""The cases of `tf_intra_op_threads`."""

from __future__ import annotations

silent = (
    """
        import os
        import tensorflow
        os.environ['TF_NUM_INTRAOP_THREADS'] = str(cores)
        """,
    """
        import os
        import tensorflow
        os.environ['TF_NUM_INTEROP_THREADS'] = '1'
        """,
)

fires = (
    """
        import os
        os.environ['TF_NUM_INTRAOP_THREADS'] = '1'
        import tensorflow
        """,
    """
        from os import environ
        import tensorflow
        environ.setdefault('TF_NUM_INTRAOP_THREADS', '1')
        """,
)
