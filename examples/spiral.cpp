// A small network in C++17 that tells the three arms of a spiral apart. It needs no library except
// Grapevine.
//
//     c++ -std=c++17 -O2 examples/spiral.cpp $(pkg-config --cflags --libs grapevine) -o spiral
//     grapevine launch -n 4 examples/run.toml -- ./spiral [ALGORITHM]
#include <grapevine/grapevine.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int hidden = 32;
constexpr int arms = 3;
constexpr int batch = 64;
constexpr float rate = 0.3F;

/// A peer that leaves the swarm at the end of its scope. Throws an exception for every result other
/// than success.
class Vine {
 public:
  Vine(const std::string& settings, const std::vector<gv_tensor>& model) {
    gv_options options{};
    options.size = sizeof options;
    options.settings = settings.c_str();
    info_.size = sizeof info_;
    info_.factor = 1;
    check(gv_join(&options, model.data(), model.size(), &peer_));
  }
  Vine(const Vine&) = delete;
  Vine& operator=(const Vine&) = delete;
  ~Vine() { gv_free(peer_); }

  /// Returns true if the gradient must be computed again.
  bool reduce(const std::vector<gv_tensor>& gradient, double loss) {
    check(gv_reduce(peer_, gradient.data(), gradient.size(), batch, loss, &info_));
    return !is_over_ && info_.again != 0;
  }
  void step(double loss) { check(gv_step(peer_, batch, loss, &info_)); }
  bool is_over() const { return is_over_; }
  float factor() const { return static_cast<float>(info_.factor); }

 private:
  void check(gv_result result) {
    is_over_ = result == GV_OVER;
    if (result == GV_OK || result == GV_OVER) return;
    const std::string problem = gv_problem();
    gv_free(peer_);
    peer_ = nullptr;
    throw std::runtime_error(problem);
  }

  gv_peer* peer_ = nullptr;
  gv_info info_{};
  bool is_over_ = false;
};

/// Two inputs, a hidden layer with tanh, and a score for each arm.
struct Network {
  std::vector<float> first = std::vector<float>(hidden * 2);
  std::vector<float> shift = std::vector<float>(hidden);
  std::vector<float> last = std::vector<float>(arms * hidden);

  std::vector<gv_tensor> tensors() {
    const auto tensor = [](const char* name, std::vector<float>& values) {
      gv_tensor made{};
      made.size = sizeof made;
      made.name = name;
      made.data = values.data();
      made.elements = values.size();
      return made;
    };
    return {tensor("first", first), tensor("shift", shift), tensor("last", last)};
  }
};

struct Sample {
  std::array<float, 2> point;
  int arm;
};

Sample draw(std::mt19937& random) {
  const auto uniform = [&] { return std::uniform_real_distribution<float>(0, 1)(random); };
  const int arm = static_cast<int>(random() % arms);
  const float radius = uniform();
  const float angle = 4 * radius + 6.2832F * static_cast<float>(arm) / arms + 0.2F * uniform();
  return {{2 * radius * std::cos(angle), 2 * radius * std::sin(angle)}, arm};
}

/// Adds the gradient of a sample's loss, divided by `batch`, to `gradient` unless it is null.
/// Returns the loss, and whether the arm with the highest score is the right one.
std::pair<double, bool> learn(const Network& model, const Sample& sample, Network* gradient) {
  std::array<float, hidden> h;
  std::array<float, arms> p{};
  for (int j = 0; j < hidden; ++j) {
    h[j] = std::tanh(model.first[2 * j] * sample.point[0] +
                     model.first[2 * j + 1] * sample.point[1] + model.shift[j]);
    for (int k = 0; k < arms; ++k) p[k] += model.last[k * hidden + j] * h[j];
  }
  const bool is_right = std::max_element(p.begin(), p.end()) - p.begin() == sample.arm;
  float sum = 0;
  for (float& value : p) sum += value = std::exp(value);
  for (float& value : p) value /= sum;
  const double loss = -std::log(p[sample.arm]);
  if (gradient == nullptr) return {loss, is_right};
  for (int j = 0; j < hidden; ++j) {
    float back = 0;
    for (int k = 0; k < arms; ++k) {
      const float error = (p[k] - (k == sample.arm ? 1.0F : 0.0F)) / batch;
      gradient->last[k * hidden + j] += error * h[j];
      back += error * model.last[k * hidden + j];
    }
    back *= 1 - h[j] * h[j];
    gradient->first[2 * j] += back * sample.point[0];
    gradient->first[2 * j + 1] += back * sample.point[1];
    gradient->shift[j] += back;
  }
  return {loss, is_right};
}

void descend(std::vector<float>& values, const std::vector<float>& gradient, float by) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= by * gradient[i];
}

void train(const std::string& settings) {
  Network model;
  std::mt19937 first(1);  // All peers start from the same model but draw their own samples.
  for (auto* part : {&model.first, &model.shift, &model.last}) {
    for (float& value : *part) value = std::uniform_real_distribution<float>(-1, 1)(first);
  }
  const char* given = std::getenv("GRAPEVINE_PEER");
  std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(given ? given : "")));

  Vine vine(settings, model.tensors());
  while (!vine.is_over()) {
    Network gradient;
    double loss = 0;
    do {
      gradient = {};
      loss = 0;
      for (int i = 0; i < batch; ++i) loss += learn(model, draw(random), &gradient).first / batch;
    } while (vine.reduce(gradient.tensors(), loss));
    if (vine.is_over()) break;
    const float by = rate * vine.factor();
    descend(model.first, gradient.first, by);
    descend(model.shift, gradient.shift, by);
    descend(model.last, gradient.last, by);
    vine.step(loss);
  }
  int right = 0;
  for (int i = 0; i < 1000; ++i) right += learn(model, draw(random), nullptr).second ? 1 : 0;
  std::printf("accuracy %.1f %%\n", right / 10.0);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(argc > 1 ? "run.algorithm = '" + std::string(argv[1]) + "'" : "");
    return 0;
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s\n", problem.what());
    return 1;
  }
}
