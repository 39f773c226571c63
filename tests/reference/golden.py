"""Golden input and values."""

from __future__ import annotations

import math

import numpy as np


def golden_views() -> tuple[np.ndarray, np.ndarray]:
    """raw_ik = 0.4 + 0.8 sin(1+3i+2k+0.5ik), raw'_ik = raw_ik + 0.5 cos(2+i+3k), N = 5, D = 4."""
    first, second = [], []
    for i in range(5):
        row = [0.4 + 0.8 * math.sin(1 + 3 * i + 2 * k + 0.5 * i * k) for k in range(4)]
        first.append(row)
        second.append([v + 0.5 * math.cos(2 + i + 3 * k) for k, v in enumerate(row)])
    return np.array(first, dtype=np.float64), np.array(second, dtype=np.float64)


GOLDEN_COSINES = [0.98588602, 0.70276018, 0.75066294, 0.99439124, 0.95672261]
GOLDEN_GATE = [1.0, 0.0, 1.0, 1.0, 0.0]

GOLDEN: dict[str, float] = {
    "infonce_tau0.05": 0.5988204583,
    "infonce_symmetric_tau0.05": 0.5267486693,
    "ntxent_2N_tau0.5": 1.3586666499,
    "dcl_2N_tau0.5": 1.0490398403,
    "dcl_cross_tau0.05": -4.1631901405,
    "dcl_plus_tau0.05": 0.5717154906,
    "dcl_plus_tau0.20": 0.1579244144,
    "align_alpha2": 0.2438308010,
    "align_alpha1": 0.4090640351,
    "uniform_cross_t2": -1.9521192450,
    "uniform_same_t2": -2.0122260337,
    "au_cross_alpha2_t2_lam0.5": -0.8541442220,
    "mpt_m0.23": 0.0965355637,
    "met_m0.45": 0.1492421064,
    "mat_m0.15pi": 0.1584777468,
    "arccon_u10deg_tau0.05": 1.1131983604,
    "paradigm_baseline_mean_anchors(m.3,tau.05,r1)": -0.0453198938,
    "mhe": -1.2721759935,
    "mhs_mean": -0.7147693487,
    "barlow_l2_nu0.0051": 2.4393135827,
    "barlow_bn_nu0.0051(rawinput)": 0.0951399730,
    "vicreg_official(rawinput)": 12.0155378742,
    "vicreg_official(l2)": 15.6727456779,
    "dhel_tau0.3_anchor_energy": -0.1751534107,
    "dhel_tau0.3_both_energies": 2.6198211890,
    "kcl_gaussian_t2_gamma16_oneview": 1.4515793535,
    "kcl_log_t2_gamma16_oneview": -10.4645930987,
    "kcl_imq_c2_gamma16_oneview": 12.6924511799,
    "kcl_riesz_s-1_gamma16_oneview": -18.7557159884,
    "kcl_riesz_s1_gamma16_oneview": 11.5858083910,
    "kcl_gaussian_t2_gamma16_code": 3.2213637805,
    "cloa_sum(e0,e1;labels01010;h)": 1.7869216862,
    "mMHE_value(d once)": 4.9170028506,
    "mB_sum(r1.5,paper weights)": -0.4552074360,
    "mV_sum(r1.5)": -0.1050722673,
    "mMHS_sum(r1.75)": -0.7699424735,
    "effective_rank(H)": 3.6142771438,
}

# the released DHEL and KCL code on the same input: both views, the log kernel's alignment without the half
GOLDEN_RELEASED: dict[str, float] = {
    "dhel_both": 2.6198211890,
    "dhel_anchor": -0.1751534107,
    "kcl_gaussian": 3.2213637805,
    "kcl_log": -20.2379151896,
    "kcl_imq": 25.4715665434,
    "kcl_riesz_s-1": -37.0802116831,
    "kcl_riesz_s1": 23.0007306645,
    "kcl_gaussian_riesz_s1": 30.2281004089,
}
