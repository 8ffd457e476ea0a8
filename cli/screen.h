// What a person sees: standard output and standard error.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "vernier/result.h"

namespace vernier {

// Failures of standard output are kept for FlushScreen().
void Say(std::FILE* stream, std::string_view text);

// "vernier: <message>" and the next step on a line of its own, on standard error. Gives kCannotTell.
ExitCode Complain(std::string_view message, std::string_view next_step = {});
ExitCode Complain(const Error& error);

// Writes out what is buffered. Gives kCannotTell instead of `code` when standard output took less than we
// said; a reader that had enough (head, less) is no failure.
ExitCode FlushScreen(ExitCode code);

// On a terminal, unless NO_COLOR or TERM=dumb.
bool UseColour(std::FILE* stream);
// Columns of the terminal; 0 when the stream is none.
std::size_t ScreenWidth(std::FILE* stream);

std::string SizeText(std::uint64_t num_bytes);  // "1.5 MiB"

}  // namespace vernier
