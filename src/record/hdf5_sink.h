// Records as datasets of one HDF5 file: a group for each step, a dataset for each tensor. Beside it a csv
// with what was measured. See docs/formats/hdf5.md.
//
// The key of a tensor is made of the record's name, the field's and the path in it. RecordFolder::file is the
// name of the HDF5 file, which all steps share; RecordFolder::header has
//   "root": {...}  attributes of the file, for the first step
//   "step": 1, "rank": 0, "device": "cpu"
//   "tensors": false  only the csv is written
//   "pack": true      elements are deflated
#pragma once

#include <functional>
#include <memory>

#include "record/sink.h"

namespace vernier {

// For RecorderOptions::open_sink. What it gives belongs to one recorder.
std::function<Result<std::unique_ptr<Sink>>(const SinkContext&, RecordFolder)> Hdf5Sinks();

}  // namespace vernier
