"""mimo: runs the MiMo-V2.6 post-training recipe on your model and your tasks."""

__version__ = "0.1.0"
