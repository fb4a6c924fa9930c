(** Keys that are not declared: released above a noisy threshold, or by the optimal coin. *)

From Coq Require Import Reals Lra Lia List ZArith.
From Sfumato Require Import Dist Privacy Series Geometric Approximate.
Import ListNotations.
Open Scope R_scope.

(** ** A table of keys: independent outcomes *)

Section Table.
Context {O : Type} (EO : decidable_equality O).

Definition unwrap (l : list O) : option (O * list O) := match l with [] => None | o :: l => Some (o, l) end.

Lemma unwrap_cons p : unwrap (fst p :: snd p) = Some p.
Proof. destruct p; reflexivity. Qed.

Lemma unwrap_inv l p : unwrap l = Some p -> fst p :: snd p = l.
Proof. destruct l; simpl; [discriminate|]. intros [= <-]. reflexivity. Qed.

Definition add_key (P : law O) (rest : law (list O)) : law (list O) :=
  relabel (fun p => fst p :: snd p) unwrap unwrap_cons unwrap_inv (joint EO P (fun _ => rest)).

Definition table (keys : list (law O)) : law (list O) := fold_right add_key (certain (list_eq_dec EO) []) keys.
End Table.

(** ** A noisy threshold *)

Section Threshold.
Variables (q : R) (m c tau : Z).
Hypothesis q_range : 0 < q < 1.
Hypotheses (c_pos : (0 <= c)%Z) (far : (0 <= tau - (m - 1) - c)%Z).

Definition EO : decidable_equality (option Z) := ltac:(unfold decidable_equality; decide equality; apply Z.eq_dec).

(** A key with count n is looked at if n >= m, and shown with its noisy count if that is at least tau. *)
Definition show (y : Z) : option Z := if (tau <=? y)%Z then Some y else None.
Definition key_law (n : Z) : law (option Z) :=
  if (m <=? n)%Z then image Z.eq_dec EO (noisy q q_range n) show else certain EO None.

(** The chance that a key of count m - 1 + c is shown. *)
Definition delta1 : R := q ^ Z.to_nat (tau - (m - 1) - c) / (1 + q).

Lemma delta1_range : 0 < delta1 < 1.
Proof.
  unfold delta1. assert (0 < q ^ Z.to_nat (tau - (m - 1) - c)) by (apply pow_lt; lra).
  assert (q ^ Z.to_nat (tau - (m - 1) - c) <= 1).
  { rewrite <- (pow1 (Z.to_nat (tau - (m - 1) - c))). apply pow_incr. lra. }
  split; [apply Rmult_lt_0_compat; auto; apply Rinv_0_lt_compat; lra|].
  apply (Rmult_lt_reg_r (1 + q)); [lra|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l; lra.
Qed.

Lemma shown_chance n : (n <= m - 1 + c)%Z -> exists p, p <= delta1 /\ chance (noisy q q_range n) (fun y => (tau <=? y)%Z) p.
Proof.
  intros L. exists (q ^ Z.to_nat (tau - n) / (1 + q)). split.
  - unfold delta1. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; lra|].
    apply pow_weaken; auto. lia.
  - pose proof (geometric_tail q q_range (tau - n) ltac:(lia)) as T. unfold chance in *.
    apply (total_translate _ n) in T. eapply total_ext; [|exact T]. intros y. simpl.
    destruct (Z.leb_spec (tau - n) (y - n)), (Z.leb_spec tau y); auto; lia.
Qed.

Lemma hidden_mass n : (m <= n <= m - 1 + c)%Z -> 1 - delta1 <= key_law n None.
Proof.
  intros L. destruct (shown_chance n ltac:(lia)) as (p & Hp & C).
  unfold key_law. destruct (Z.leb_spec m n); [|lia].
  set (N := noisy q q_range n) in *.
  pose proof (second_spec (joint Z.eq_dec N (fun a => certain EO (show a))) None) as S.
  change (image Z.eq_dec EO N show None) with (second_mass (joint Z.eq_dec N (fun a => certain EO (show a))) None).
  set (h := second_mass _ None) in *.
  assert (T : total N (h + p)).
  { refine (total_ext _ _ _ _ (total_plus _ _ _ _ _ _ Z.eq_dec S C)).
    - intros y. simpl. unfold joint_mass, show. simpl. destruct (tau <=? y)%Z.
      + destruct (EO None (Some y)); [discriminate|lra].
      + destruct (EO None None); [lra|congruence].
    - intros y. apply mass_nonneg.
    - intros y. simpl. destruct (tau <=? y)%Z; [apply (mass_nonneg N y)|lra]. }
  pose proof (total_unique _ _ _ T (mass_total N)). lra.
Qed.

(** One key. *)
Lemma both_open n n' : (m <= n)%Z -> (m <= n')%Z -> (Z.abs (n - n') <= c)%Z ->
  parts ((/ q) ^ Z.to_nat c) 1 1 (key_law n) (key_law n').
Proof.
  intros A B C. exists (key_law n), (key_law n'). repeat split; intros o; try lra;
  unfold key_law; destruct (Z.leb_spec m n), (Z.leb_spec m n'); try lia;
  apply (post_processing (fun x x' => (Z.abs_nat (x - x') <= Z.to_nat c)%nat) Z.eq_dec EO _ (noisy q q_range));
  try lia; try (apply pow_le; left; apply Rinv_0_lt_compat; lra);
  apply (geometric_mechanism q q_range _ (fun x => x)); auto.
Qed.

Lemma open_once n n' : (m <= n <= m - 1 + c)%Z -> (n' < m)%Z -> parts 1 (1 - delta1) 1 (key_law n) (key_law n').
Proof.
  intros A B. pose proof (hidden_mass n A) as H. exists (certain EO None), (certain EO None).
  assert (E : key_law n' = certain EO None) by (unfold key_law; destruct (Z.leb_spec m n'); [lia|auto]).
  rewrite E. repeat split; intros o; try lra. simpl. destruct (EO o None) as [->|].
  - rewrite Rmult_1_r. exact H.
  - rewrite Rmult_0_r. apply mass_nonneg.
Qed.

(** Two lists of counts: a keys are looked at in the first only, b in the second only, e in both and moved. *)
Inductive moved : list Z -> list Z -> nat -> nat -> nat -> Prop :=
| moved_none : moved [] [] 0 0 0
| moved_same n l l' a b e : moved l l' a b e -> moved (n :: l) (n :: l') a b e
| moved_closed n n' l l' a b e : (n < m)%Z -> (n' < m)%Z -> moved l l' a b e -> moved (n :: l) (n' :: l') a b e
| moved_open n n' l l' a b e : (m <= n)%Z -> (m <= n')%Z -> (Z.abs (n - n') <= c)%Z ->
    moved l l' a b e -> moved (n :: l) (n' :: l') a b (S e)
| moved_lost n n' l l' a b e : (m <= n)%Z -> (n' < m)%Z -> (Z.abs (n - n') <= c)%Z ->
    moved l l' a b e -> moved (n :: l) (n' :: l') (S a) b e
| moved_gained n n' l l' a b e : (n < m)%Z -> (m <= n')%Z -> (Z.abs (n - n') <= c)%Z ->
    moved l l' a b e -> moved (n :: l) (n' :: l') a (S b) e.

Definition keys (counts : list Z) : law (list (option Z)) := table EO (map key_law counts).

Lemma keys_cons n l : keys (n :: l) = add_key EO (key_law n) (keys l).
Proof. reflexivity. Qed.

Theorem moved_parts l l' a b e : moved l l' a b e ->
  parts (((/ q) ^ Z.to_nat c) ^ e) ((1 - delta1) ^ a) ((1 - delta1) ^ b) (keys l) (keys l').
Proof.
  pose proof delta1_range.
  assert (P : forall k, 0 <= (1 - delta1) ^ k) by (intros; apply pow_le; lra).
  induction 1 as [|n l l' a b e M IH|n n' l l' a b e A B M IH|n n' l l' a b e A B C M IH|n n' l l' a b e A B C M IH|
                  n n' l l' a b e A B C M IH]; try rewrite !keys_cons.
  - simpl. apply parts_equal.
  - rewrite <- (Rmult_1_l (_ ^ e)), <- (Rmult_1_l (_ ^ a)), <- (Rmult_1_l (_ ^ b)).
    apply parts_relabel, parts_product; auto; try lra. apply parts_equal.
  - replace (key_law n') with (key_law n).
    2: { unfold key_law. destruct (Z.leb_spec m n), (Z.leb_spec m n'); try lia. reflexivity. }
    rewrite <- (Rmult_1_l (_ ^ e)), <- (Rmult_1_l (_ ^ a)), <- (Rmult_1_l (_ ^ b)).
    apply parts_relabel, parts_product; auto; try lra. apply parts_equal.
  - simpl. rewrite <- (Rmult_1_l (_ ^ a)), <- (Rmult_1_l (_ ^ b)).
    apply parts_relabel, parts_product; auto; try lra. apply both_open; auto.
  - rewrite <- (Rmult_1_l (_ ^ e)), <- (Rmult_1_l (_ ^ b)). simpl.
    apply parts_relabel, parts_product; auto; try lra. apply open_once; lia.
  - rewrite <- (Rmult_1_l (_ ^ e)), <- (Rmult_1_l (_ ^ a)). simpl.
    apply parts_relabel, parts_product; auto; try lra. apply parts_symmetric, open_once; lia.
Qed.

(** Theorem. If at most g keys disappear from sight on each side and at most T others move, the table of keys is
    within ((1/q)^(cT), 1 - (1 - delta1)^g). Add-remove has T = g; replace has T = 2 g and the same delta. *)
Theorem threshold_selection l l' a b e g T : moved l l' a b e -> (a <= g)%nat -> (b <= g)%nat -> (e <= T)%nat ->
  within (((/ q) ^ Z.to_nat c) ^ T) (1 - (1 - delta1) ^ g) (keys l) (keys l').
Proof.
  intros M A B E. pose proof delta1_range.
  assert (Q : forall k, (k <= g)%nat -> (1 - delta1) ^ g <= (1 - delta1) ^ k <= 1).
  { intros k L. split; [apply pow_weaken; auto; lra|]. apply Rle_trans with (1 ^ k); [apply pow_incr; lra|rewrite pow1; lra]. }
  assert (Rq : 1 <= (/ q) ^ Z.to_nat c).
  { apply pow_R1_Rle. apply (Rmult_le_reg_l q); [lra|]. rewrite Rinv_r; lra. }
  assert (EL : decidable_equality (list (option Z))) by exact (list_eq_dec EO).
  apply (parts_within EL _ ((1 - delta1) ^ a) ((1 - delta1) ^ b)).
  - apply pow_le. lra.
  - specialize (Q a A). lra.
  - specialize (Q b B). lra.
  - replace (1 - (1 - (1 - delta1) ^ g)) with ((1 - delta1) ^ g) by ring. apply pow_le. lra.
  - eapply parts_weaken; [|apply Rle_refl|apply Rle_refl|apply moved_parts, M]. apply Rle_pow; auto.
Qed.
End Threshold.

(** ** The optimal coin for one key *)

Section OptimalCoin.
Variables (r delta : R).
Hypotheses (r_ge : 1 <= r) (delta_range : 0 < delta < 1).

(** The chance to keep a key of n people. *)
Definition next (x : R) : R := Rmin (Rmin (r * x + delta) (1 - / r * (1 - x - delta))) 1.
Fixpoint keep (n : nat) : R := match n with O => 0 | S n => next (keep n) end.

Lemma r_inv : 0 < / r <= 1.
Proof.
  split; [apply Rinv_0_lt_compat; lra|]. apply (Rmult_le_reg_l r); [lra|]. rewrite Rinv_r; lra.
Qed.

Lemma next_bounds x : 0 <= x <= 1 ->
  0 <= next x <= 1 /\ next x <= r * x + delta /\ 1 - x <= r * (1 - next x) + delta /\
  (x < 1 - delta -> x + delta <= next x) /\ (1 - delta <= x -> next x = 1).
Proof.
  intros X. pose proof r_inv as [I I'].
  assert (N1 : next x <= r * x + delta) by (unfold next; eapply Rle_trans; [apply Rmin_l|apply Rmin_l]).
  assert (N2 : next x <= 1 - / r * (1 - x - delta)) by (unfold next; eapply Rle_trans; [apply Rmin_l|apply Rmin_r]).
  assert (N3 : next x <= 1) by apply Rmin_r.
  assert (G : x < 1 - delta -> x + delta <= next x).
  { intros L. unfold next. apply Rmin_glb; [apply Rmin_glb|lra]; nra. }
  assert (F : 1 - delta <= x -> next x = 1).
  { intros L. apply Rle_antisym; auto. unfold next. apply Rmin_glb; [apply Rmin_glb|lra]; nra. }
  repeat split; auto.
  - destruct (Rlt_le_dec x (1 - delta)) as [L|L]; [specialize (G L)|rewrite (F L)]; lra.
  - assert (r * next x <= r * (1 - / r * (1 - x - delta))) by (apply Rmult_le_compat_l; lra).
    replace (r * (1 - / r * (1 - x - delta))) with (r - (1 - x - delta)) in H by (field; lra). lra.
Qed.

Lemma keep_range n : 0 <= keep n <= 1.
Proof. induction n; simpl; [lra|]. apply next_bounds. auto. Qed.

Definition coin (p : R) (P : 0 <= p <= 1) : law bool.
Proof.
  refine {| mass := fun b : bool => if b then p else 1 - p |}.
  - intros []; lra.
  - apply (total_finite_eq _ [true; false]).
    + simpl. lra.
    + intros []; lra.
    + repeat constructor; simpl; intuition discriminate.
    + intros []; simpl; tauto.
    + apply Bool.bool_dec.
Defined.

Definition kept_key (n : nat) : law bool := coin (keep n) (keep_range n).

(** Theorem. One person more or less: the coins agree up to a part of mass delta, within r. *)
Theorem optimal_coin_parts n : parts r (1 - delta) (1 - delta) (kept_key (S n)) (kept_key n).
Proof.
  destruct (next_bounds (keep n) (keep_range n)) as (B & B1 & B2 & B3 & B4).
  pose proof (keep_range n) as K.
  destruct (Rlt_le_dec (keep n) (1 - delta)) as [L|L].
  - specialize (B3 L).
    assert (I : 0 < / (1 - delta)) by (apply Rinv_0_lt_compat; lra).
    assert (V : forall x, 0 <= x <= 1 - delta -> 0 <= x * / (1 - delta) <= 1).
    { intros x X. split; [nra|]. apply (Rmult_le_reg_r (1 - delta)); [lra|]. rewrite Rmult_assoc, Rinv_l; lra. }
    exists (coin ((next (keep n) - delta) * / (1 - delta)) (V (next (keep n) - delta) ltac:(lra))),
           (coin (keep n * / (1 - delta)) (V (keep n) ltac:(lra))).
    assert (C : forall x, (1 - delta) * (x * / (1 - delta)) = x) by (intros; field; lra).
    assert (C' : forall x, 1 - x * / (1 - delta) = (1 - delta - x) * / (1 - delta)) by (intros; field; lra).
    assert (M : forall x y, x <= r * y -> x * / (1 - delta) <= r * (y * / (1 - delta))).
    { intros x y X. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; lra. }
    assert (U : forall x, 0 <= x -> x <= r * x) by (intros; nra).
    repeat split; intros [|]; simpl; rewrite ?C'; rewrite ?C; try lra; apply M; try lra;
      (eapply Rle_trans; [|apply U]); lra.
  - specialize (B4 L). exists (coin 1 ltac:(lra)), (coin 1 ltac:(lra)).
    repeat split; intros [|]; simpl; try rewrite B4; try lra; nra.
Qed.

(** Several keys: t of them have one person more or less. *)
Inductive stepped : list nat -> list nat -> nat -> Prop :=
| stepped_none : stepped [] [] 0
| stepped_same n l l' t : stepped l l' t -> stepped (n :: l) (n :: l') t
| stepped_down n l l' t : stepped l l' t -> stepped (S n :: l) (n :: l') (S t)
| stepped_up n l l' t : stepped l l' t -> stepped (n :: l) (S n :: l') (S t).

Definition kept_keys (counts : list nat) : law (list bool) := table Bool.bool_dec (map kept_key counts).

Lemma kept_keys_cons n l : kept_keys (n :: l) = add_key Bool.bool_dec (kept_key n) (kept_keys l).
Proof. reflexivity. Qed.

(** Theorem. Releasing each key by its own coin is within (r^t, 1 - (1 - delta)^t). *)
Theorem optimal_selection l l' t : stepped l l' t -> within (r ^ t) (1 - (1 - delta) ^ t) (kept_keys l) (kept_keys l').
Proof.
  intros M. assert (W : forall k, 0 <= (1 - delta) ^ k <= 1).
  { intros k. split; [apply pow_le; lra|]. apply Rle_trans with (1 ^ k); [apply pow_incr; lra|rewrite pow1; lra]. }
  assert (EL : decidable_equality (list bool)) by exact (list_eq_dec Bool.bool_dec).
  apply (parts_within EL _ ((1 - delta) ^ t) ((1 - delta) ^ t)); try (specialize (W t); lra); [apply pow_le; lra|].
  induction M as [|n l l' t M IH|n l l' t M IH|n l l' t M IH]; rewrite ?kept_keys_cons.
  - simpl. apply parts_equal.
  - rewrite <- (Rmult_1_l (r ^ t)), <- (Rmult_1_l ((1 - delta) ^ t)).
    apply parts_relabel, parts_product; auto; try apply W; try lra. apply parts_equal.
  - simpl. apply parts_relabel, parts_product; auto; try apply W; try lra. apply optimal_coin_parts.
  - simpl. apply parts_relabel, parts_product; auto; try apply W; try lra. apply parts_symmetric, optimal_coin_parts.
Qed.

(** Theorem. No (r, delta)-private coin that never shows a key without people shows a key of n people more often. *)
Theorem optimal_coin_optimal (p : nat -> R) : p O = 0 -> (forall n, 0 <= p n <= 1) ->
  (forall n, p (S n) <= r * p n + delta) -> (forall n, 1 - p n <= r * (1 - p (S n)) + delta) ->
  forall n, p n <= keep n.
Proof.
  intros P0 Pr H1 H2 n. pose proof r_inv as [I I']. induction n as [|n IH]; [rewrite P0; simpl; lra|].
  simpl. unfold next. specialize (H1 n). specialize (H2 n). apply Rmin_glb; [apply Rmin_glb|apply Pr].
  - nra.
  - assert (/ r * (1 - p n - delta) <= 1 - p (S n)).
    { apply (Rmult_le_reg_l r); [lra|]. rewrite <- Rmult_assoc, Rinv_r, Rmult_1_l by lra. lra. }
    nra.
Qed.
End OptimalCoin.
