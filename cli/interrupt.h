// Ctrl-C: asks the work to stop, and makes sure that it does.
#pragma once

#include <stop_token>

#include "cli/commands.h"

namespace vernier {

// While it lives, SIGINT, SIGTERM and SIGHUP request a stop; work that goes on for two more seconds, or a
// second signal, ends the process after the unfinished output files were removed. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  std::stop_token token() const;
  void RequestStop();  // for reasons of our own, such as a full disk
  bool interrupted() const;
};

}  // namespace vernier
