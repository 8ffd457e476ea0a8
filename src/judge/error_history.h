// The errors that a class of calls has shown so far, and what is usual among them.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <queue>
#include <vector>

namespace vernier {

// The lower nine tenths lie in one heap, the rest in another: the 90th percentile is always at hand.
class ErrorHistory {
 public:
  void Add(double error) {
    if (lower_.empty() || error <= lower_.top()) {
      lower_.push(error);
    } else {
      upper_.push(error);
    }
    largest_ = std::fmax(largest_, error);
    const std::size_t wanted = static_cast<std::size_t>(kShare * static_cast<double>(size() - 1)) + 1;
    while (lower_.size() > wanted) upper_.push(Taken(lower_));
    while (lower_.size() < wanted) lower_.push(Taken(upper_));
  }
  std::size_t size() const { return lower_.size() + upper_.size(); }
  double largest() const { return largest_; }
  double Usual() const { return lower_.top(); }  // REQUIRES: size() > 0

 private:
  static constexpr double kShare = 0.9;

  template <class Heap>
  static double Taken(Heap& heap) {
    const double top = heap.top();
    heap.pop();
    return top;
  }

  std::priority_queue<double> lower_;
  std::priority_queue<double, std::vector<double>, std::greater<>> upper_;
  double largest_ = 0;
};

}  // namespace vernier
