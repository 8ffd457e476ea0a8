// Errors of single operators, and the file that unit tests write them to.
#include <memory>

#include "capi/c_api_internal.h"
#include "xray_ops/details.h"
#include "xray_ops/error_counts.h"

using namespace vernier;  // NOLINT: the functions below are C

VnStatus VnErrorCounts(const VnTensor* cpu, const VnTensor* device, int32_t num_orders,
                       const VnOptions* options, VnTable** row) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"row", row}}));
    VN_ASSIGN_OR_RETURN(const TensorView cpu_view, ViewOf(cpu, "cpu"));
    VN_ASSIGN_OR_RETURN(const TensorView device_view, ViewOf(device, "device"));
    const int num_threads = Complete(options).num_threads;
    VN_ASSIGN_OR_RETURN(const xray_ops::ErrorCounts counts,
                        xray_ops::CountErrors(cpu_view, device_view, num_orders, num_threads));
    auto table = std::make_unique<VnTable>();
    table->columns = xray_ops::CountColumns(num_orders);
    table->rows.push_back(xray_ops::CountCells(counts, num_orders));
    *row = table.release();
    return Done{};
  });
}

VnStatus VnBeginDetails(const char* path, int32_t num_orders) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(CheckNotNull({{"path", path}}));
    return xray_ops::BeginDetails(path, num_orders);
  });
}

VnStatus VnAppendDetails(const char* path, int32_t num_orders, const char* name, const char* op_name,
                         const char* device, const char* is_pass, const char* message,
                         const VnTable* counts) {
  return Guarded([&]() -> Result<Done> {
    VN_RETURN_IF_ERROR(
        CheckNotNull({{"path", path}, {"name", name}, {"op_name", op_name}, {"device", device}}));
    if (counts != nullptr &&
        (counts->rows.size() != 1 || counts->columns != xray_ops::CountColumns(num_orders)))
      return BadArgument("counts", "is not what VnErrorCounts gave for so many orders");
    xray_ops::DetailRow row{
        name, op_name, device, is_pass != nullptr ? is_pass : "", message != nullptr ? message : "", {}};
    if (counts != nullptr) row.counts = counts->rows[0].cells();
    return xray_ops::AppendDetails(path, num_orders, row);
  });
}
