// How good a model of virtual peers is, and how that is printed.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>

#include "train/evaluation.hpp"

namespace gv {

/// Without training a model has a loss at most.
struct Judgement {
  double loss = 0;
  Merit merit{.name = "accuracy"};

  double accuracy() const { return merit.name == "accuracy" ? merit.value : 0; }
  std::optional<double> r2() const {
    return merit.name == "r2" ? std::optional(merit.value) : std::nullopt;
  }
};

/// The accuracy, or R2 where there is one.
inline std::string merit_text(double accuracy, std::optional<double> r2) {
  return r2 ? fmt::format("R2 {:.4f}", *r2) : fmt::format("{:.2f} %", 100 * accuracy);
}

}  // namespace gv
