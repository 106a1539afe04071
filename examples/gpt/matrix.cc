#include "gpt/matrix.h"

#include <cassert>

#include <cblas.h>

namespace gpt {
namespace {

size_t product_rows(const ConstMatrix& matrix) {
  return matrix.is_transposed ? matrix.columns : matrix.rows;
}

size_t product_columns(const ConstMatrix& matrix) {
  return matrix.is_transposed ? matrix.rows : matrix.columns;
}

CBLAS_TRANSPOSE blas_order(const ConstMatrix& matrix) {
  return matrix.is_transposed ? CblasTrans : CblasNoTrans;
}

blasint blas_int(size_t value) { return static_cast<blasint>(value); }

}  // namespace

ConstMatrix transposed(ConstMatrix matrix) {
  matrix.is_transposed = !matrix.is_transposed;
  return matrix;
}

void multiply(const Product& product) {
  const auto& [left, right, result, scale, keep] = product;
  assert(product_rows(left) == result.rows);
  assert(product_columns(left) == product_rows(right));
  assert(product_columns(right) == result.columns);
  cblas_sgemm(CblasRowMajor, blas_order(left), blas_order(right), blas_int(result.rows),
              blas_int(result.columns), blas_int(product_columns(left)), scale, left.data,
              blas_int(left.stride), right.data, blas_int(right.stride), keep, result.data,
              blas_int(result.stride));
}

void use_one_thread() { openblas_set_num_threads(1); }

}  // namespace gpt
