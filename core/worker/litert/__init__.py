"""LiteRT, the interpreter inside TensorFlow: inference of the same Keras networks in float32 and int8."""
