// Calls a function again and again on a thread of its own, whatever the program does meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace vernier {

class Ticker {
 public:
  Ticker() = default;
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  ~Ticker();  // waits for a call that is going on

  // From now on calls fn() every `period`, which must not throw. false: the system has no thread for it.
  // Does nothing when it was started before.
  bool Start(std::chrono::milliseconds period, std::function<void()> fn);

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace vernier
