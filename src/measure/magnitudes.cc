#include "measure/magnitudes.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/mapped_file.h"

namespace vernier {

Result<TensorView> MagnitudesOf(TensorView tensor) {
  if (Class(tensor.dtype) != DtypeClass::kComplex) return tensor;
  auto magnitudes = std::make_shared<std::vector<double>>();
  try {
    magnitudes->resize(tensor.num_elements);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kTooLarge, "", "no memory for the magnitudes of complex numbers"};
  }
  VisitDtype(tensor.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      for (std::size_t i = 0; i < magnitudes->size(); ++i) {
        T value;
        std::memcpy(&value, tensor.data + i * sizeof(T), sizeof(T));
        (*magnitudes)[i] = std::hypot(static_cast<double>(value.real()), static_cast<double>(value.imag()));
      }
    }
  });
  if (tensor.file && tensor.file->changed()) return Error{ErrorCode::kFileChanged, tensor.file->path(), ""};
  TensorView view = BorrowTensor(Dtype::kF64, tensor.shape, magnitudes->data());
  view.owner = std::move(magnitudes);
  return view;
}

}  // namespace vernier
