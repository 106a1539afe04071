"""Linear regression over the C interface of libpaceline: `pace run --local 2 python3 train.py`."""

import ctypes
import os
import pathlib

import numpy

STEPS, FEATURES, SAMPLES = 200, 8, 64  # samples of one micro-batch
OK, MORE, LEFT = 0, 1, 3
BUILT = pathlib.Path(__file__).resolve().parents[2] / "build/release/lib/libpaceline.so"
library = ctypes.CDLL(os.environ.get("PACELINE_LIBRARY", str(BUILT)))
library.paceline_sum.restype = ctypes.POINTER(ctypes.c_float)
library.paceline_last_error.restype = ctypes.c_char_p
library.paceline_state_digest.restype = ctypes.c_uint64


class Step(ctypes.Structure):
    _fields_ = [("step", ctypes.c_uint64), ("micro_batches", ctypes.c_uint32)]


class MicroBatch(ctypes.Structure):
    _fields_ = [("step", ctypes.c_uint64), ("index", ctypes.c_uint32), ("seed", ctypes.c_uint64)]


job = ctypes.c_void_p()


def call(name: str, *arguments) -> int:
    if (status := getattr(library, "paceline_" + name)(*arguments)) < 0:
        raise RuntimeError(f"{name}: {library.paceline_last_error(job).decode()}")
    return status


def gradient(weights: numpy.ndarray, seed: int) -> numpy.ndarray:
    rng = numpy.random.default_rng(seed)
    x = rng.standard_normal((SAMPLES, FEATURES), dtype=numpy.float32)
    error = x @ (weights - numpy.arange(FEATURES, dtype=numpy.float32))
    return numpy.ascontiguousarray(x.T @ error / SAMPLES, dtype=numpy.float32)


weights = numpy.zeros(FEATURES, dtype=numpy.float32)
step, micro_batch, counts = Step(), MicroBatch(), (ctypes.c_size_t * 1)(FEATURES)
call("init", None, ctypes.byref(job))
status, bucket, pointer = OK, ctypes.c_uint32(), weights.ctypes.data_as(ctypes.c_void_p)
call("register_bucket", job, b"weights", counts, ctypes.c_size_t(1), 0, ctypes.byref(bucket))
call("register_state", job, b"weights", pointer, ctypes.c_size_t(weights.nbytes), 0)
while status != LEFT and call("begin_step", job, ctypes.byref(step)) == OK and step.step < STEPS:
    status = MORE
    while status == MORE:
        while call("next_micro_batch", job, ctypes.byref(micro_batch)) == OK:
            array = gradient(weights, micro_batch.seed)
            call("accumulate", job, bucket, array.ctypes.data_as(ctypes.c_void_p))
        status = call("finish_step", job)
    if status == OK:
        total = numpy.ctypeslib.as_array(library.paceline_sum(job, bucket), (FEATURES,))
        weights -= numpy.float32(0.1 / step.micro_batches) * total
digest = library.paceline_state_digest(job)
print(f"rank {library.paceline_rank(job)}: weights {weights.round(3)}, digest {digest:016x}")
call("finalize", job)
