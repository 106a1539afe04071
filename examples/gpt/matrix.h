// Views of row-major float matrices, and their product by OpenBLAS.
//
// A view borrows its memory. `stride` is the distance between rows in elements, so that a view can
// be a block of columns of a wider matrix (a head of the attention, a part of a joint projection).
#pragma once

#include <cstddef>

namespace gpt {

struct Matrix {
  float* data;
  size_t rows;
  size_t columns;
  size_t stride;
};

struct ConstMatrix {
  const float* data;
  size_t rows;
  size_t columns;
  size_t stride;
  bool is_transposed = false;  // rows and columns stay those of the stored matrix

  ConstMatrix(const float* data_in, size_t rows_in, size_t columns_in, size_t stride_in)
      : data(data_in), rows(rows_in), columns(columns_in), stride(stride_in) {}
  // A Matrix reads as a ConstMatrix wherever one is asked for.
  ConstMatrix(const Matrix& matrix)  // NOLINT(google-explicit-constructor)
      : ConstMatrix(matrix.data, matrix.rows, matrix.columns, matrix.stride) {}
};

ConstMatrix transposed(ConstMatrix matrix);

struct Product {
  ConstMatrix left;
  ConstMatrix right;
  Matrix result;
  float scale = 1.0F;
  float keep = 0.0F;  // what stays of the old result: 0 overwrites it (even NaN), 1 adds to it
};

// result = scale * left * right + keep * result. The same bits for the same input: one BLAS thread
// is enough, see use_one_thread.
void multiply(const Product& product);

// Makes OpenBLAS compute on the calling thread. The split of a product over threads may change its
// rounding, and a host that runs several ranks has no idle cores anyway. Call once, before the
// first product.
void use_one_thread();

}  // namespace gpt
