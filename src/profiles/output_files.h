// Where results go, for every family of dumps.
#pragma once

#include <string>

namespace vernier {

// Local time as YYYYMMDDhhmmss, for names of results.
std::string TimestampNow();

// A folder that is there, a name that ends in '/', or one without an ending where no format is given.
bool IsFolderName(const std::string& output, const std::string& format);
bool IsStandardOutput(const std::string& output);

}  // namespace vernier
