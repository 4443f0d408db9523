"""The cases of `tf_s3_paths`."""

from __future__ import annotations

silent = (
    """
        import tensorflow as tf
        ds = tf.data.TFRecordDataset('/data/a.tfrecord')
        """,
    """
        import tensorflow as tf
        import s3fs
        files = s3fs.S3FileSystem().glob('s3://mine/*')
        """,
    """
        import boto3, tensorflow as tf
        bucket = 's3://mine/a'
        print(bucket)
        """,
)

fires = (
    """
        import tensorflow as tf
        ds = tf.data.TFRecordDataset('s3://mine/a.tfrecord')
        """,
    """
        import tensorflow as tf
        FILES = 's3://mine/*.png'
        names = tf.io.gfile.glob(FILES)
        """,
    """
        import tensorflow as tf
        x = tf.io.read_file(f's3://{bucket}/a.png')
        """,
)
